"""What Hydra, OmegaConf and YAML say when a config cannot be composed, as an error of rlpipe."""

from __future__ import annotations

from hydra.errors import HydraException
from omegaconf.errors import OmegaConfBaseException

from rlpipe.config.findings import LOOK
from rlpipe.errors import ConfigError

_ADVICE = "To append to your default list use "
_HIDDEN = (
    *("To append to your config use", "Either remove + prefix", "Or add a second +", "See https://", "full_key:"),
    *("object_type=", "reference_type="),
)


def is_of_the_config(error: BaseException | None) -> bool:
    """Whether Hydra and what it is made of raised the error, and not code that it ran."""
    return isinstance(error, (HydraException, OmegaConfBaseException)) or type(error).__module__.startswith("yaml.")


def config_error(error: BaseException) -> ConfigError:
    """The error for one that is of the config, without the advice that rlpipe would refuse."""
    lines = [line.strip() for text in _texts(error) for line in text.splitlines() if line.strip()]
    advice = [line.removeprefix(_ADVICE) for line in lines if line.startswith(_ADVICE)]
    told = [line for line in lines if not line.startswith((_ADVICE, *_HIDDEN))]
    return ConfigError(
        "the config cannot be composed",
        expected="options, keys and values that fit together",
        found=" ".join(dict.fromkeys(told)) or type(error).__name__,
        fix=f"write '{advice[0]}'" if advice else LOOK,
    )


def _texts(error: BaseException) -> tuple[str, ...]:
    cause = error.__cause__
    return (str(error), str(cause)) if is_of_the_config(cause) else (str(error),)
