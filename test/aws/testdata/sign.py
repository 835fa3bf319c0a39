"""Signs requests with botocore. Each line of input is a JSON object {"method", "url", "headers", "body", "id", "secret",
"token", "region", "service", "s3", "in", "expires", "unsigned", "time"}. Each line of output is the value of Authorization,
or the query of the presigned request as a JSON object."""

import base64
import datetime
import json
import sys
from types import SimpleNamespace
from urllib.parse import parse_qsl, urlsplit

import botocore.auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials


class Clock(datetime.datetime):
    @classmethod
    def utcnow(cls):
        return cls.now_is


botocore.auth.datetime = SimpleNamespace(datetime=Clock)

for line in sys.stdin:
    r = json.loads(line)
    Clock.now_is = Clock.strptime(r["time"], "%Y%m%dT%H%M%SZ")
    request = AWSRequest(
        method=r["method"], url=r["url"], data=base64.b64decode(r["body"] or "")
    )
    for name, value in r["headers"] or []:
        request.headers.add_header(name, value)
    request.context["payload_signing_enabled"] = not r["unsigned"]
    if r["unsigned"]:  # S3 has a setting of its own
        request.context["client_config"] = SimpleNamespace(
            s3={"payload_signing_enabled": False}
        )
    credentials = Credentials(r["id"], r["secret"], r["token"] or None)
    kind = ("S3" if r["s3"] else "") + "SigV4"
    if r["in"] == "query":
        signer = getattr(botocore.auth, kind + "QueryAuth")
        signer(
            credentials, r["service"], r["region"], expires=r["expires"]
        ).add_auth(request)
        answer = dict(parse_qsl(urlsplit(request.url).query))
    else:
        signer = getattr(botocore.auth, kind + "Auth")
        signer(credentials, r["service"], r["region"]).add_auth(request)
        answer = request.headers["Authorization"]
    print(json.dumps(answer))
