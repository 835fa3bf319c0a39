package httpapi

import (
	"net/http"

	"github.com/keywright/keywright/internal/fairqueue"
)

// Limit changes the limits of a handler: its concurrent requests, and the bytes of response bodies that are being
// written.
func Limit(h http.Handler, requests int, bytes int64) {
	h.(*handler).places = fairqueue.New(requests, bytes)
}
