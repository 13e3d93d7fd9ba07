"""For the pytest of a mutant: Hypothesis stops at its first failure instead of shrinking it."""

from hypothesis import Phase, settings

settings.register_profile("mutants", phases=[Phase.explicit, Phase.generate])
settings.load_profile("mutants")
