package embed

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/keywright/keywright/internal/testworld"
)

// threats.md 50: the document is sanitised again after the embeds were inserted, in case an embed has changed since it
// was sanitised.
func TestSanitisedResult(t *testing.T) {
	r := testworld.Must(New(Config{Transport: http.DefaultTransport}))(t)
	const link = "https://www.youtube.com/watch?v=abc"
	r.cache.put(link, `<p>shown</p><script>alert(1)</script><img src=x onerror=alert(1)>`, time.Hour)
	got := r.Resolve(t.Context(), "<p>"+link+"</p>")
	if !strings.Contains(got, "shown") || strings.Contains(got, "alert") {
		t.Errorf("the document is %s", got)
	}
}
