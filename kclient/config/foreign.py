"""Properties of Java's client and librdkafka that kclient has no option for: what to do."""

from __future__ import annotations

import re

from kclient.errors import ConfigError

_WITHOUT_MEANING = re.compile(
    "|".join(
        (
            # Java classes: our serializers are callables, our metrics a method.
            r"(key|value)\.(de)?serializer|(?!partitioner).*\.class(es)?|interceptor\..*",
            r"metric.*|auto\.include\.jmx.*|enable\.metrics\.push|security\.providers",
            r"ssl\.(protocol|provider|enabled\.protocols|engine\.factory\.class)",
            r"ssl\..*manager\.algorithm|ssl\.secure\.random\.implementation",
            r"client\.dns\.lookup|sasl\.login\..*|internal\..*|share\..*",
            r"sasl\.kerberos\.(kinit|ticket|min)\..*|sasl\.oauthbearer\.method",
            # PEM files have no password of their own; other stores are refused by their names.
            r"ssl\.(truststore|keystore)\.password",
            # Only brokers check tokens.
            r"sasl\.oauthbearer\.(jwks|expected|clock)\..*|sasl\.oauthbearer\.\w+\.claim\.name",
            # Tuning of another machinery: it changes how fast, not what is done.
            r"retries|message\.send\.max\.retries|metadata\.max\.idle\.ms|exclude\.internal\.topics",
            r"compression\.(\w+\.)?level|partitioner\.(adaptive|availability)\..*",
            r"sticky\.partitioning\..*|socket\.connection\.setup\.timeout\.max\.ms",
            r"socket\.(keepalive|nagle|max)\..*|broker\.(address|version)\..*|api\.version\..*",
            r"topic\.metadata\..*|queue\.buffering\..*|queued\..*|batch\.num\.messages",
            r"message\.copy\..*|fetch\.(queue|error)\..*|enable\.sparse\.connections",
            r"delivery\.report\..*|statistics\..*|debug|log_level|log\..*|client\.software\..*",
        )
    )
)
_REFUSED = (
    (r"config\.providers.*", "kclient replaces no ${...}: write the values themselves"),
    (r"partitioner\.(class|ignore\.keys)", "choose by kclient's own option: partitioner"),
    (
        r"ssl\.(truststore\.certificates|keystore\.(key|certificate\.chain))",
        "write it to a file, and name that by ssl.truststore.location or ssl.keystore.location",
    ),
    (
        r"enable\.ssl\.certificate\.verification",
        "kclient always verifies, except by an ssl_context of your own",
    ),
    (
        r"enable\.auto\.offset\.store|offset\.store\..*",
        "kclient stores no offsets apart: commit them yourself with enable.auto.commit=false",
    ),
    (r"enable\.partition\.eof", "kclient tells no ends: compare position with end_offsets"),
    (r"sasl\.oauthbearer\.assertion\..*", "give tokens by sasl_oauth_token_provider"),
    (r"bootstrap\.controllers", "kclient speaks with brokers: give bootstrap.servers"),
    (r"transaction\.two\.phase\.commit\.enable", "kclient has no two-phase commit"),
)


def is_without_meaning(name: str) -> bool:
    """Whether a property changes nothing here."""
    return _WITHOUT_MEANING.fullmatch(name) is not None


def refusal(name: str) -> ConfigError | None:
    """The error for a property that must not be passed over, None if it is none of those."""
    for pattern, advice in _REFUSED:
        if re.fullmatch(pattern, name):
            return ConfigError(
                f"kclient does not have the property {name!r}; {advice}", option=name
            )
    return None
