"""Options by their dotted names, as Java's client and librdkafka spell them."""

from __future__ import annotations

import logging
import re
import types
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar, Union, get_args, get_origin

from kclient.config.option import Declared, declared, unknown
from kclient.errors import ConfigError

T = TypeVar("T")
_log = logging.getLogger(__name__)

# Java classes have no meaning here: our serializers are callables, our metrics a method.
_MEANINGLESS = re.compile(
    r"(key|value)\.(de)?serializer|.*\.class(es)?|interceptor\..*|metric.*|auto\.include\.jmx.*"
    r"|ssl\.(protocol|provider|enabled\.protocols|engine\.factory\.class|.*manager\.algorithm)"
    r"|client\.dns\.lookup|sasl\.login\..*|security\.providers|enable\.metrics\.push"
    r"|sasl\.kerberos\.(kinit|ticket|min)\..*|sasl\.oauthbearer\.method"
)
_SPECIAL = (
    "sasl.jaas.config",
    "ssl.truststore.location",
    "ssl.keystore.location",
    "ssl.endpoint.identification.algorithm",
    "ssl.truststore.type",
    "ssl.keystore.type",
)
_JAAS_PAIR = re.compile(r"(\w+)\s*=\s*(\"(?:[^\"\\]|\\.)*\"|[^\s;]+)")


def from_properties(
    options: type, source: Mapping[str, object] | str | PathLike[str]
) -> dict[str, Any]:
    """Keyword arguments for ``options`` from a mapping, or a file, of dotted names.

    Raises ConfigError for a name that neither Java's client nor librdkafka has, for text
    that is no such value, and for a file that cannot be read.
    """
    given = dict(source) if isinstance(source, Mapping) else read_file(source)
    by_name = {name: entry for entry in declared(options).values() for name in entry.dotted}
    values: dict[str, Any] = {}
    for name, value in given.items():
        if name in _SPECIAL:
            values.update(_special(name, str(value)))
        elif name in by_name:
            entry = by_name[name]
            values[entry.name] = _read(entry, name, value) if isinstance(value, str) else value
        elif _MEANINGLESS.fullmatch(name):
            _log.info("%s has no meaning for kclient and is ignored", name)
        else:
            raise unknown(name, by_name, "property")
    return values


def read_file(path: str | PathLike[str]) -> dict[str, str]:
    """The pairs of a Java properties file. Raises ConfigError if it cannot be read."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeError) as error:
        raise ConfigError(f"the properties file {path} cannot be read: {error}") from error
    pairs = {}
    for line in re.sub(r"\\\r?\n[ \t]*", "", text).splitlines():
        line = line.strip()
        if line and line[0] not in "#!":
            name, value = re.match(r"((?:\\.|[^=:\s\\])*)\s*[=:]?\s*(.*)", line).groups()  # type: ignore[union-attr]
            pairs[name] = re.sub(r"\\(.)", r"\1", value)
    return pairs


def _read(entry: Declared, name: str, text: str) -> Any:
    try:
        if entry.option.read is not None:
            return entry.option.read(text)
        return _as_type(entry.hint, text)
    except ValueError:
        shown = "[hidden]" if entry.option.secret else repr(text)
        raise ConfigError(f"{name}={shown} is not what {entry.name} takes") from None


def _as_type(hint: Any, text: str) -> Any:
    kinds = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    if str in kinds:
        return text
    if bool in kinds:
        if text.lower() not in ("true", "false"):
            raise ValueError(text)
        return text.lower() == "true"
    if int in kinds:
        return int(text)
    if float in kinds:
        return float(text)
    raise ValueError(text)


def _special(name: str, value: str) -> dict[str, Any]:
    """Properties that stand for something else here."""
    if name == "sasl.jaas.config":
        return _jaas(value)
    if name == "ssl.endpoint.identification.algorithm":
        return {"ssl_check_hostname": value.lower() not in ("", "none")}
    if name.endswith(".type"):
        if value.upper() != "PEM":
            raise ConfigError(
                f"{name}={value}: kclient reads PEM files only; convert the store, e.g. with "
                "keytool -importkeystore to PKCS12 and openssl pkcs12 -out store.pem"
            )
        return {}
    if value.endswith((".jks", ".p12", ".pfx")):
        raise ConfigError(f"{name}={value}: kclient reads PEM files only; convert the store")
    return {"ssl_cafile" if "truststore" in name else "ssl_certfile": value}


def _jaas(text: str) -> dict[str, Any]:
    """The login of a JAAS line: name and password, or those of an OAuth client."""
    names = {
        "username": "sasl_plain_username",
        "password": "sasl_plain_password",
        "tokenauth": "sasl_scram_token_auth",
        "clientId": "sasl_oauthbearer_client_id",
        "clientSecret": "sasl_oauthbearer_client_secret",
        "scope": "sasl_oauthbearer_scope",
        "serviceName": "sasl_kerberos_service_name",
        "principal": "sasl_kerberos_principal",
        "keyTab": "sasl_kerberos_keytab",
    }
    values: dict[str, Any] = {}
    for key, quoted in _JAAS_PAIR.findall(text):
        if key in names:
            value = re.sub(r"\\(.)", r"\1", quoted[1:-1]) if quoted.startswith('"') else quoted
            values[names[key]] = value == "true" if key == "tokenauth" else value
    return values
