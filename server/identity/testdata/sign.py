"""Signs JWTs with PyJWT: a JSON object a line in, {"claims", "algorithm", "key", "kid"}; a token a line out. The key is
PKCS #8 in PEM, or the text of an HMAC secret."""

import json
import sys

import jwt

for line in sys.stdin:
    request = json.loads(line)
    print(
        jwt.encode(
            request["claims"],
            request["key"],
            algorithm=request["algorithm"],
            headers={"kid": request["kid"]},
        )
    )
