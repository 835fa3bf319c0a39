"""Verifies requests with oauthlib, as a server. Each line of input is a JSON object {"method", "url", "headers", "body",
"client_secret", "token_secret", "public_key"}. Each line of output is {"valid", "params"}, with the parameters of OAuth that
the server has seen, or {"error"}."""

import json
import sys

from oauthlib.oauth1 import RequestValidator, SignatureOnlyEndpoint


class Validator(RequestValidator):
    allowed_signature_methods = ("HMAC-SHA1", "HMAC-SHA256", "RSA-SHA1", "PLAINTEXT")
    timestamp_lifetime = 1 << 40  # the requests have the time of a test
    enforce_ssl = True
    dummy_client = "dummy"

    def __init__(self):
        super().__init__()
        self.used = set()
        self.request = None

    def check_client_key(self, client_key):
        return bool(client_key)

    def validate_client_key(self, client_key, request):
        return True

    def validate_timestamp_and_nonce(self, client_key, timestamp, nonce, request, **tokens):
        new = (client_key, timestamp, nonce) not in self.used
        self.used.add((client_key, timestamp, nonce))
        return new

    def get_client_secret(self, client_key, request):
        return self.request["client_secret"]

    def get_access_token_secret(self, client_key, token, request):
        return self.request["token_secret"]

    def get_rsa_key(self, client_key, request):
        return self.request["public_key"]


validator = Validator()
endpoint = SignatureOnlyEndpoint(validator)
for line in sys.stdin:
    request = validator.request = json.loads(line)
    try:
        valid, seen = endpoint.validate_request(
            request["url"], request["method"], request["body"], request["headers"]
        )
        answer = {"valid": valid, "params": seen.oauth_params if seen else {}}
    except Exception as error:
        answer = {"error": repr(error)}
    print(json.dumps(answer))
