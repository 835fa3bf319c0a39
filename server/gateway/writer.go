package gateway

import "net/http"

// finalWriter passes on final answers only. What an API says before its answer (1xx) and after it (trailers) has not been
// through the list of headers that pass, and httputil.ReverseProxy would write both; the first of them with whatever is to
// be in the header of every answer, which it forgets then.
type finalWriter struct {
	http.ResponseWriter
	header http.Header // of the answer, so far
	always http.Header // of every answer
	wrote  bool
}

func newFinalWriter(w http.ResponseWriter, id string) *finalWriter {
	return &finalWriter{ResponseWriter: w, header: http.Header{}, always: http.Header{
		"X-Request-Id":            {id},
		"X-Content-Type-Options":  {"nosniff"},
		"Content-Security-Policy": {"default-src 'none'; sandbox"}, // an answer that is HTML is no page of this origin
	}}
}

func (w *finalWriter) Header() http.Header { return w.header }

func (w *finalWriter) WriteHeader(status int) {
	if status < 200 || w.wrote {
		return
	}
	w.wrote = true
	to := w.ResponseWriter.Header()
	for name, values := range w.header {
		if name != "Trailer" {
			to[name] = values
		}
	}
	for name, values := range w.always {
		if name == "Vary" {
			values = append(values, to[name]...)
		}
		to[name] = values
	}
	if _, typed := to["Content-Type"]; !typed && status != http.StatusNoContent && status != http.StatusNotModified {
		to["Content-Type"] = []string{"application/octet-stream"} // rather than what net/http takes it for
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *finalWriter) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.ResponseWriter.Write(p)
}

// Unwrap is for http.ResponseController.
func (w *finalWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
