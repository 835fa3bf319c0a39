package bench

import (
	"fmt"
	"math"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/keywright/keywright/internal/testworld"
)

// The numbers of users, connectors and callers whose memory is measured.
const (
	sizedUsers      = 1000
	sizedConnectors = 5000
)

// The table of operating.md has the memory that a process has in use, within a fifth. make sizing prints the table.
func TestSizing(t *testing.T) {
	api, login := origin(t, func(http.ResponseWriter, *http.Request) {}), func(length int) string { return origin(t, issue(length)) }
	text := testworld.Must(os.ReadFile("../../docs/operating.md"))(t)
	check := func(work string, measured float64) {
		t.Helper()
		units := map[string]float64{"KiB": 1 << 10, "MiB": 1 << 20}
		unit := "KiB"
		if measured >= 1<<20 {
			unit = "MiB"
		}
		t.Logf("| %s | %.0f %s |", work, measured/units[unit], unit)
		found := regexp.MustCompile(`(?m)^\| ` + regexp.QuoteMeta(work) + ` \| ([\d.]+) ([KM]iB)\b`).FindSubmatch(text)
		if found == nil {
			t.Errorf("operating.md does not have how much is needed by %s", work)
			return
		}
		documented := testworld.Must(strconv.ParseFloat(string(found[1]), 64))(t)
		if documented *= units[string(found[2])]; math.Abs(measured-documented) > documented/5 {
			t.Errorf("%s: %.0f bytes, and operating.md has %.0f", work, measured, documented)
		}
	}
	users := make([]string, sizedUsers)
	for i := range users {
		users[i] = fmt.Sprint("user-", i)
	}
	grants := strings.NewReplacer("oauth_client_credentials", "oauth_refresh_token", `"{{ user.id }}"`, "me", "token_url", `refresh_token: "{{ get_secret('secret', 'user') }}", token_url`)
	const state = "state: {type: sqlite, path: state.db, keys: '{{ get_secret(\"secret\") }}'}\n"

	alone := serve(t, connector("users", api, login(80), ""), "")
	check("a process with one connector", alone.use("users", users[:1], 2).memory())
	check("a connector with a secret, used", sizeOfConnectors(t, api))
	for _, length := range []int{80, 1000, 2000} {
		s := serve(t, connector("users", api, login(length), ""), "")
		before := s.use("users", users[:1], 2).memory()
		check(fmt.Sprintf("a user with a token of %d bytes, used twice", length), (s.use("users", users[1:], 2).memory()-before)/(sizedUsers-1))
		s.end()
	}
	s := serve(t, grants.Replace(connector("users", api, login(80), "")), state, users...)
	before := s.use("users", users[:1], 2).memory()
	check("a user with a grant, used twice", (s.use("users", users[1:], 2).memory()-before)/(sizedUsers-1))

	var waiting atomic.Int64
	there := make(chan struct{})
	s = serve(t, withKey("slow", origin(t, func(w http.ResponseWriter, r *http.Request) {
		if waiting.Add(1) == sizedUsers {
			close(there)
		}
		hang(w, r)
	}))+crowded, "")
	before = s.memory()
	s.crowd(t.Context(), sizedUsers, 1)
	<-there
	check("a caller who waits for an API", (s.memory()-before)/sizedUsers)
}

// use sends requests of users.
func (s *serving) use(connector string, users []string, times int) *serving {
	s.t.Helper()
	for range times {
		for _, user := range users {
			if status := s.get(s.t.Context(), connector, user); status != http.StatusOK {
				s.t.Fatalf("a request of %s for %s: %d", user, connector, status)
			}
		}
	}
	return s
}

// sizeOfConnectors returns the memory of a connector among many.
func sizeOfConnectors(t *testing.T, api string) (bytes float64) {
	text := make([]string, sizedConnectors)
	for i := range text {
		text[i] = withKey(fmt.Sprint("c", i), api)
	}
	one, all := serve(t, text[0], ""), serve(t, strings.Join(text, ""), "")
	defer all.end()
	for i := range text {
		all.use(fmt.Sprint("c", i), []string{"ann"}, 1)
	}
	return (all.memory() - one.use("c0", []string{"ann"}, 1).memory()) / (sizedConnectors - 1)
}

// withKey returns a connector whose users have one key.
func withKey(name, api string) string {
	return fmt.Sprintf(`  - name: %s
    url: %s
    auth:
      type: api_key
      config:
        key: X-API-Key
        value: "{{ get_secret('secret') }}"
        in: header
`, name, api)
}
