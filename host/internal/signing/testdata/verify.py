"""Verifies compact JWTs with PyJWT. Each line of input is a JSON object {"token", "algorithm", "key"}. Each line of output
is {"header", "claims"}, or {"error"} if the token does not verify."""

import json
import sys

import jwt
from cryptography.hazmat.primitives.serialization import load_pem_public_key

OPTIONS = {
    "verify_signature": True,
    "verify_exp": False,
    "verify_nbf": False,
    "verify_iat": False,
    "verify_aud": False,
    "verify_iss": False,
}
keys = {}


def key_of(text):
    if "-----BEGIN" not in text:
        return text
    if text not in keys:  # loading a key takes longer than verifying
        keys[text] = load_pem_public_key(text.encode())
    return keys[text]


for line in sys.stdin:
    request = json.loads(line)
    token = request["token"]
    try:
        claims = jwt.decode(
            token,
            key_of(request["key"]),
            algorithms=[request["algorithm"]],
            options=OPTIONS,
        )
        answer = {"header": jwt.get_unverified_header(token), "claims": claims}
    except jwt.InvalidTokenError as error:
        answer = {"error": repr(error)}
    print(json.dumps(answer))
