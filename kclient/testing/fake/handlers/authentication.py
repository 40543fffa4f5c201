"""SaslHandshake and SaslAuthenticate."""

from __future__ import annotations

from kclient.protocol import Message
from kclient.protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from kclient.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from kclient.testing.fake.authentication import MECHANISMS
from kclient.testing.fake.call import Call
from kclient.testing.fake.codes import Refusal
from kclient.testing.fake.handlers.registry import handles


@handles(SaslHandshakeRequest, itemised=True)
def sasl_handshake(call: Call, request: SaslHandshakeRequest) -> Message:
    """Agree on a mechanism; the answer names those there are, also when it refuses."""
    answer = SaslHandshakeResponse(mechanisms=list(MECHANISMS))
    try:
        call.check()
        call.authentication.choose(request.mechanism, raw_tokens=call.version == 0)
    except Refusal as refusal:
        answer.error_code = refusal.code
    return answer


@handles(SaslAuthenticateRequest, itemised=True)
def sasl_authenticate(call: Call, request: SaslAuthenticateRequest) -> Message:
    """Check a token. A refused client learns no more than that."""
    answer = SaslAuthenticateResponse(error_message=None)
    try:
        call.check()
        answer.session_lifetime_ms = call.authentication.step(bytes(request.auth_bytes))
    except Refusal as refusal:
        answer.error_code = refusal.code
        answer.error_message = "Authentication failed: the fake broker refuses the credentials"
    return answer
