package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/keywright/keywright/host/hosttest"
	"github.com/keywright/keywright/plugins/internal/plugintest"
)

// The client's own assertion follows the clock of the token endpoint, and has the lifetime assertion_ttl.
func TestClockOfTheClientsAssertion(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.Key("key", "ES256")
		h.TokenEndpoint(endpoint, plugintest.Dated(h, hosttest.JSON(http.StatusUnauthorized, `{"error":"invalid_client"}`), 5*time.Minute), hosttest.Token("the-access-token", 3600))
		h.Authenticate(assertionConfig("assertion_ttl", 60), get())
		for i, lead := range []int64{0, 300} {
			_, claims := h.JWT(h.Exchanges()[i].Form.Get("client_assertion"))
			moment := h.Now().Unix() + lead
			if claims["iat"] != json.Number(fmt.Sprint(moment)) || claims["exp"] != json.Number(fmt.Sprint(moment+60)) {
				t.Errorf("assertion %d: %v", i, claims)
			}
		}
	})
}
