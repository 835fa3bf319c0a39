// Package answers has the rules for the answers that clients get, whatever they ask for.
package answers

import (
	"errors"
	"net/http"
)

// ErrSwitched is the error of Final.
var ErrSwitched = errors.New("it switches to another protocol, which was not asked for")

// Final passes on the result of sending a request, such as that of an [http.RoundTripper]. An informational answer (1xx) is
// ErrSwitched in its place. What net/http returns as the body of a 101 is the connection, which reads on after the context of the
// request has ended. So nobody may read it who has not asked for an upgrade.
func Final(response *http.Response, err error) (*http.Response, error) {
	if err != nil || response.StatusCode < 100 || response.StatusCode > 199 {
		return response, err
	}
	if response.Body != nil {
		_ = response.Body.Close()
	}
	return nil, ErrSwitched
}
