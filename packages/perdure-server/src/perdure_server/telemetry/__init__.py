"""SEEING: logs (traces and metrics follow), fed at the one commit point. Nothing here is needed to run."""
