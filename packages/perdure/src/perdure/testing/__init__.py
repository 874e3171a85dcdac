"""The kit for tests, which the package perdure-testing brings: `perdure_testing`."""

from perdure.model.stand_ins import stand_in

stand_in(__name__, "perdure_testing", "testing")
