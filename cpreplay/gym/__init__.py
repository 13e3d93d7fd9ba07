"""Gymnasium's environments, recorded and restarted. The only importer of gymnasium."""

from cpreplay.gym.recorder import RecordedStep, TransitionRecorder
from cpreplay.gym.restarts import RestartWrapper

__all__ = ["RecordedStep", "RestartWrapper", "TransitionRecorder"]
