package httpapi_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/keywright/keywright/content"
	"github.com/keywright/keywright/content/httpapi"
)

// held is a store whose pages wait.
type held struct {
	*memory
	asked, release chan struct{}
	reading        *sync.Mutex // memory serves one at a time
}

func (h held) Articles(ctx context.Context, skip int64, limit int) ([]content.Article, error) {
	h.asked <- struct{}{}
	<-h.release
	h.reading.Lock()
	defer h.reading.Unlock()
	return h.memory.Articles(ctx, skip, limit)
}

// threats.md 77: a page may be large, so that no more are made at once than the configuration says.
func TestRequestsAtOnceAreBounded_threats_77(t *testing.T) {
	const most = 3
	store := held{community(), make(chan struct{}), make(chan struct{}), &sync.Mutex{}}
	h := handler(t, httpapi.Config{Store: store, Requests: most})
	serve := func() *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/articles", nil))
		return w
	}
	answers := make(chan int)
	for range most {
		go func() { answers <- serve().Code }()
		<-store.asked
	}
	refused := serve()
	if refused.Code != http.StatusServiceUnavailable || refused.Header().Get("Retry-After") != "1" || !strings.Contains(refused.Body.String(), "urn:keywright:problem:busy") {
		t.Errorf("one more gets %d %v %s", refused.Code, refused.Header(), refused.Body)
	}
	close(store.release)
	for range most {
		if got := <-answers; got != http.StatusOK {
			t.Errorf("one of those before gets %d", got)
		}
	}
	go func() { <-store.asked }()
	if got := serve().Code; got != http.StatusOK { // the places are given back
		t.Errorf("afterwards one gets %d", got)
	}
}

func TestANegativeBoundIsRefused(t *testing.T) {
	if _, err := httpapi.New(httpapi.Config{Store: community(), Requests: -1}); err == nil {
		t.Error("it is not")
	}
}
