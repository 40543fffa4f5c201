"""Ways to log in (SASL): each makes tokens for the broker and reads its answers.

None of them touches a socket or a clock; `kclient.net.authentication` carries the tokens.
"""

from __future__ import annotations

from kclient.protocol.sasl.mechanism import Mechanism
from kclient.protocol.sasl.msk_iam import AwsCredentials, MskIam
from kclient.protocol.sasl.oauthbearer import OAuthBearer
from kclient.protocol.sasl.plain import Plain
from kclient.protocol.sasl.scram import Scram

__all__ = ["AwsCredentials", "Mechanism", "MskIam", "OAuthBearer", "Plain", "Scram"]
