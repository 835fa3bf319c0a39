package httpapi

import (
	"net/http"

	"github.com/keywright/keywright/internal/fairqueue"
)

// Limit changes the concurrent requests of a handler, and the bytes of responses that are being written.
func Limit(h http.Handler, requests int, bytes int64) {
	h.(*handler).places = fairqueue.New(requests, bytes)
}
