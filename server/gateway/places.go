package gateway

import (
	"errors"
	"io"
	"net/http"
	"runtime"

	"github.com/keywright/keywright/internal/answers"
	"github.com/keywright/keywright/internal/fairqueue"
	"github.com/keywright/keywright/server/internal/codings"
)

// newPlaces returns the places for shaping bodies: two for each processor, but at least four. They are few, because a decoded
// body takes many times the memory of its text and much time of a processor. Their owners are connectors, by permalink, so
// that the places that a connector has taken still count after a reload (threats.md 58).
func newPlaces() *fairqueue.Queue {
	const mostHeld = 256 << 20 // bytes of bodies that are read, wait or are shaped
	return fairqueue.New(max(4, 2*runtime.GOMAXPROCS(0)), mostHeld)
}

var errNoPlace = &httpProblem{
	status: http.StatusServiceUnavailable, kind: "too-many-requests", detail: "this connector has more bodies to shape than it can", retry: 1,
	cause: errors.New("no body of this connector was done within timeout: others wait for the same places"),
}

// codings returns the content codings that need a window in memory. It counts that in places, as bytes of the connector.
func (g *Gateway) codings(connector string) map[string]answers.Coding {
	all := codings.Further()
	for name, coding := range all {
		all[name] = func(r io.Reader) (io.ReadCloser, error) {
			w := &window{places: g.places, connector: connector}
			if !g.places.Hold(connector, codings.Window) {
				return nil, errors.Join(errHeld, w.Close())
			}
			var err error
			if w.ReadCloser, err = coding(r); err != nil {
				return nil, errors.Join(err, w.Close())
			}
			return w, nil
		}
	}
	return all
}

// window is the reader of a coding whose window counts in places until it is closed.
type window struct {
	io.ReadCloser
	places    *fairqueue.Queue
	connector string
}

func (w *window) Close() (err error) {
	if w.places != nil {
		w.places.Hold(w.connector, -codings.Window)
		w.places = nil
	}
	if w.ReadCloser != nil {
		err = w.ReadCloser.Close()
	}
	return err
}

// errHeld is the error for a body when too many bytes are held.
var errHeld = &httpProblem{status: http.StatusServiceUnavailable, kind: "too-many-requests", detail: "there are more bodies under way than this gateway takes", retry: 1}

// countingReader reads a body to be shaped, and counts its bytes in places, which limits the bytes of all such bodies.
type countingReader struct {
	io.Reader
	places    *fairqueue.Queue
	connector string
	bytes     int64
}

// read reads a connector's body to its end. The caller must call release when it no longer needs the body, also after an
// error. It returns an error if too many bytes are held.
func (g *Gateway) read(from io.Reader, connector string) (body []byte, release func(), err error) {
	h := &countingReader{Reader: from, places: g.places, connector: connector}
	body, err = io.ReadAll(h)
	return body, func() { g.places.Hold(connector, -h.bytes) }, err
}

func (h *countingReader) Read(p []byte) (int, error) {
	n, err := h.Reader.Read(p)
	h.bytes += int64(n)
	if !h.places.Hold(h.connector, int64(n)) {
		return 0, errHeld
	}
	return n, err
}
