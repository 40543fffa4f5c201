"""Options by their dotted names, as Java's client and librdkafka spell them."""

from __future__ import annotations

import logging
import re
import types
from collections.abc import Iterator, Mapping
from os import PathLike
from pathlib import Path
from typing import Any, Union, get_args, get_origin

from kclient.config.foreign import is_without_meaning, refusal
from kclient.config.option import Declared, declared, unknown
from kclient.errors import ConfigError

_log = logging.getLogger(__name__)

_SPECIAL = (
    "sasl.jaas.config",
    "ssl.truststore.location",
    "ssl.keystore.location",
    "ssl.endpoint.identification.algorithm",
    "ssl.truststore.type",
    "ssl.keystore.type",
)
_SPACE = " \t\f"
_PAIR = re.compile(r"((?:\\.|[^=: \t\f\\])*)[ \t\f]*[=:]?[ \t\f]*(.*)", re.DOTALL)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
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
        entry = by_name.get(name)
        is_java_class = isinstance(value, str) and entry is not None and not _takes_text(entry)
        if name in _SPECIAL:
            values.update(_special(name, str(value)))
        elif entry is not None and not (is_java_class and is_without_meaning(name)):
            values[entry.name] = _read(entry, name, value) if isinstance(value, str) else value
        elif is_without_meaning(name):
            _log.info("%s has no meaning for kclient and is ignored", name)
        else:
            raise refusal(name) or unknown(name, by_name, "property")
    return values


def read_file(path: str | PathLike[str]) -> dict[str, str]:
    """The pairs of a Java properties file. Raises ConfigError if it cannot be read."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeError) as error:
        raise ConfigError(f"the properties file {path} cannot be read: {error}") from error
    return dict(_pair(line) for line in _logical_lines(text))


def _logical_lines(text: str) -> Iterator[str]:
    """Lines as Java sees them: without comments, and joined where a backslash ends one."""
    begun = ""
    for line in re.split(r"\r\n|\r|\n", text):
        line = line.lstrip(_SPACE)
        if not begun and line.startswith(("#", "!")):
            continue
        begun += line
        if (len(line) - len(line.rstrip("\\"))) % 2:
            begun = begun[:-1]
            continue
        if begun:
            yield begun
        begun = ""
    if begun:
        yield begun


def _pair(line: str) -> tuple[str, str]:
    match = _PAIR.fullmatch(line)
    assert match is not None  # each of its parts may be empty
    return _unescaped(match[1]), _unescaped(match[2])


def _unescaped(text: str) -> str:
    plain = _ESCAPE.sub(lambda match: _escape(match[1]), text)
    # Java's characters are halves of those beyond 16 bits.
    return plain.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _escape(text: str) -> str:
    if text[0] == "u":
        if len(text) == 1:
            raise ConfigError("the properties file holds a \\u without its four hex digits")
        return chr(int(text[1:], 16))
    return _ESCAPES.get(text, text)


def _read(entry: Declared, name: str, text: str) -> Any:
    try:
        if not entry.option.secret:
            text = text.strip()
        for choice in entry.option.choices:  # librdkafka takes them in any case
            if text.lower() == choice.lower():
                return choice
        if entry.option.read is not None:
            return entry.option.read(text)
        return _as_type(entry.hint, text)
    except ValueError:
        shown = "[hidden]" if entry.option.secret else repr(text)
        raise ConfigError(f"{name}={shown} is not what {entry.name} takes") from None


def _kinds(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)


def _takes_text(entry: Declared) -> bool:
    kinds = _kinds(entry.hint)
    return entry.option.read is not None or any(each in kinds for each in (str, bool, int, float))


def _as_type(hint: Any, text: str) -> Any:
    kinds = _kinds(hint)
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
