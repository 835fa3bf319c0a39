package httpapi_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/content"
	"github.com/keywright/keywright/server/content/httpapi"
)

// wire sends bytes to a server and reads the response.
func wire(t *testing.T, server *httptest.Server, request string) answer {
	t.Helper()
	connection := testworld.Must((&net.Dialer{}).DialContext(t.Context(), "tcp", server.Listener.Addr().String()))(t)
	defer connection.Close()
	testworld.Must(io.WriteString(connection, request))(t)
	method, _, _ := strings.Cut(request, " ")
	response, err := http.ReadResponse(bufio.NewReader(connection), &http.Request{Method: method})
	if err != nil {
		t.Fatalf("%.80q: err = %v", request, err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatalf("%.80q: err = %v", request, err)
	}
	response.Header.Del("Date")
	return answer{response.StatusCode, response.Header, string(body)}
}

// threats.md 52: for any bytes in place of an id, the response is 404, or net/http's own 400 if they do not make an HTTP
// request.
func TestOddBytesInIDs(t *testing.T) {
	store := community()
	quote := "'; DROP TABLE articles; --"
	store.updates[quote] = content.ProductUpdate{ID: quote, Title: "quoted"}
	server := httptest.NewServer(handler(t, httpapi.Config{Store: store}))
	defer server.Close()
	plain := wire(t, server, "GET /productUpdates/none HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
	tests := []struct {
		id     string
		status int
		part   string
	}{
		{"%00", 404, ""},
		{"u1%00", 404, ""},
		{"%0d%0aX:y", 404, ""},
		{"%7f", 404, ""},
		{"%C2%85", 404, ""}, // U+0085, a control character
		{"%ff", 404, ""},
		{"\xff", 404, ""},
		{"u1\xff", 404, ""},
		{"%ED%A0%80", 404, ""}, // a surrogate in UTF-8
		{"%C0%AE%C0%AE", 404, ""},
		{"%2e%2e%2fu1", 404, ""},
		{"%2e%2e%2f%2e%2e%2fetc%2fpasswd", 404, ""},
		{"../productUpdates/u1", 404, ""},
		{"u1%2f..%2fgone", 404, ""},
		{"..%5cu1", 404, ""},
		{strings.Repeat("a", 10_000), 404, ""},
		{strings.Repeat("%2F", 10_000), 404, ""},
		{"'%20OR%201=1%20--", 404, ""},
		{"%25", 404, ""},
		{"%2525", 404, ""},
		{"u1%20", 404, ""},
		{"u1;a=b", 404, ""},
		{"U1", 404, ""},
		{"%EF%BB%BFu1", 404, ""},
		{"u%CC%88", 404, ""}, // u and a combining diaeresis, which is not ü
		{"*", 404, ""},
		{"%", 400, ""},
		{"%zz", 400, ""},
		{"u1%2", 400, ""},
		{"\x00", 400, ""},
		{"u1\x01", 400, ""},
		{"a b", 400, ""},
		{"%27;%20DROP%20TABLE%20articles;%20--", 200, `"title":"quoted"`},
		{"..", 200, `"title":"dots"`},
		{"%2e%2e", 200, `"title":"dots"`},
		{"a%2Fb", 200, `"title":"slash"`},
		{"%252f", 404, ""},
		{"%252F", 200, `"title":"percent"`},
		{"ü", 200, `"title":"umlaut"`},
		{"%c3%bc", 200, `"title":"umlaut"`},
		{"#", 404, ""},
		{"u1#", 404, ""},
		{"u1?", 200, `"title":"shown"`},
	}
	for _, test := range tests {
		got := wire(t, server, fmt.Sprintf("GET /productUpdates/%s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", test.id))
		if got.status != test.status || !strings.Contains(got.body, test.part) {
			t.Errorf("%.40q: got = %+v", test.id, got)
		}
		if test.status == 404 && fmt.Sprint(got) != fmt.Sprint(plain) {
			t.Errorf("%.40q: %+v, but for an id that is not there %+v", test.id, got, plain)
		}
		if test.status == 200 {
			continue
		}
		for _, path := range []string{"/articles/%s/replies/r1", "/articles/a1/replies/%s"} {
			if got := wire(t, server, fmt.Sprintf("GET "+path+" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", test.id)); got.status != test.status {
				t.Errorf(path+": %+v", test.id, got)
			}
		}
	}
}

// An unescaped byte that is invalid in a path does not turn %2F into a slash.
func TestOddBytesDoNotChangeTheRoute(t *testing.T) {
	store := community()
	store.replies[[2]string{"a", `b"`}] = content.Reply{ID: `b"`}
	id := `a/replies/b"`
	store.updates[id] = content.ProductUpdate{ID: id, Title: "whole"}
	server := httptest.NewServer(handler(t, httpapi.Config{Store: store}))
	defer server.Close()
	for target, status := range map[string]int{
		`/articles/a/replies/b"`: 200, `/articles/a%2Freplies%2Fb"`: 404, `/articles/a%2Freplies/b"`: 404, `/productUpdates/a%2Freplies%2Fb"`: 200, `/productUpdates/a/replies/b"`: 404,
	} {
		if got := wire(t, server, "GET "+target+" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"); got.status != status {
			t.Errorf("%s: got = %+v", target, got)
		}
	}
}

// The response to HEAD is that to GET without the body, compressed or not. Responses 304 and those to OPTIONS have no
// body.
func TestAnswersOverTheWire(t *testing.T) {
	store := community()
	store.updates["large"] = content.ProductUpdate{ID: "large", Body: strings.Repeat("<p>text</p>", 100_000)}
	server := httptest.NewServer(handler(t, httpapi.Config{Store: store}))
	defer server.Close()
	for _, path := range []string{"/productUpdates/large", "/productUpdates/u1", "/productUpdates/gone", "/articles?page=0"} {
		for _, encoding := range []string{"gzip", "identity"} {
			rest := path + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAccept-Encoding: " + encoding + "\r\n\r\n"
			get, head := wire(t, server, "GET "+rest), wire(t, server, "HEAD "+rest)
			if head.body != "" || head.status != get.status || fmt.Sprint(head.header) != fmt.Sprint(get.header) {
				t.Errorf("%s: HEAD is %d %v, GET %d %v", path, head.status, head.header, get.status, get.header)
			}
			if length := get.header.Get("Content-Length"); length != fmt.Sprint(len(get.body)) {
				t.Errorf("%s: Content-Length is %s of %d bytes", path, length, len(get.body))
			}
		}
	}
	got := wire(t, server, "GET /productUpdates/large HTTP/1.1\r\nHost: x\r\nConnection: close\r\nIf-None-Match: *\r\n\r\n")
	if got.status != 304 || got.body != "" || got.header.Get("ETag") == "" {
		t.Errorf("got = %+v", got)
	}
}
