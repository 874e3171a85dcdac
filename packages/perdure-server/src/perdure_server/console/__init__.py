"""The console: pages for people, served as plain files, and the reads behind them. See decision 0054."""
