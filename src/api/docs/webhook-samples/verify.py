import base64
import hashlib
import hmac
import time


def verify_alert(secret: str, headers: dict, body: bytes) -> None:
    """Raises ValueError when the signature is wrong or older than five minutes."""
    key = base64.urlsafe_b64decode(secret.removeprefix("sigcb_v1_") + "=")
    timestamp = headers["webhook-timestamp"]
    if abs(time.time() - int(timestamp)) > 300:
        raise ValueError("the alert is too old")
    signed = f"{headers['webhook-id']}.{timestamp}.".encode() + body
    expected = b"v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest())
    # While a secret is rotated there are two signatures: one that fits is enough.
    signatures = headers["webhook-signature"].encode().split(b" ")
    if not any(hmac.compare_digest(expected, one) for one in signatures):
        raise ValueError("the signature is wrong")
