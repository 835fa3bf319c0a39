package httpapi

import (
	"net/http"

	"github.com/keywright/keywright/server/internal/places"
)

// Limit has a handler make so many answers at once, and hold so many bytes of those that it writes.
func Limit(h http.Handler, requests int, bytes int64) {
	h.(*handler).places = places.New(requests, bytes)
}
