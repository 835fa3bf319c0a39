package connectors

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/gateway"
)

// allocated returns how many bytes f allocates, and what it returns.
func allocated(f func() error) (uint64, error) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	err := f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc, err
}

func newHost(t testing.TB) *host.Host {
	h := testworld.Must(host.New(t.Context(), host.Config{}))(t)
	t.Cleanup(func() { testworld.Check(t, h.Close(context.WithoutCancel(t.Context()))) })
	return h
}

// costOf reads a text with the host h, and returns the bytes that this allocates and the problems.
func costOf(t *testing.T, h *host.Host, text string) (uint64, []Problem) {
	l := newLoader("connectors.yaml", []byte(text), Options{Environment: true})
	l.set.Host = h
	cost, err := allocated(func() error {
		root := parse(t.Context(), text, &l.problems)
		if root == nil {
			return nil
		}
		definitions, _ := l.document(t.Context(), root)
		l.set.Settings = l.settings(root)
		l.openStores(t.Context())
		return l.connectAll(t.Context(), definitions)
	})
	if err != nil {
		t.Fatalf("%d bytes: %v", len(text), err)
	}
	return cost, l.sorted(nil, moreProblems)
}

// Only the beginning of a long name is normalized, because a character of three bytes may become eighteen letters
// (threats.md 54).
func TestPermalinkOfALongName(t *testing.T) {
	name := strings.Repeat("\ufdfa", maxFile/3)
	cost, _ := allocated(func() error { gateway.Permalink(name); return nil })
	if cost > 1<<20 {
		t.Errorf("it allocates %d KiB", cost>>10)
	}
}

// A thousand connectors of usual length can be read, at twice the cost of five hundred (threats.md 54).
func TestAThousandConnectors(t *testing.T) {
	file := func(n int) string {
		var b strings.Builder
		b.WriteString("# All that we call, team by team: ask before changing.\ngateway: {hosts: [gateway.example.com]}\nconnectors:\n")
		for i := range n {
			fmt.Fprintf(&b, `
  # The API of team %[1]d, which answers in JSON, mostly.
  - name: Team %[1]d - orders
    permalink: team-%[1]d
    url: https://api-%[1]d.example.com/v2/tenants/{{ tenant_id }}
    method: [GET, POST]
    paths: [/orders, "/orders/*", /customers/**]
    headers:
      - {name: X-On-Behalf-Of, value: "{{ user.email }}"}
      - {name: Accept-Language, value: "en,de;q=0.5", overridable: true}
    query:
      - {name: limit, value: "50", overridable: true}
    auth:
      type: oauth_client_credentials
      config:
        client_id: gateway-%[1]d
        client_secret: "{{ get_secret('team-%[1]d') }}"
        token_url: https://login-%[1]d.example.com/token
        scope: "orders:read orders:write"
    response:
      filter: record.owner == user.email
      body: "{orders: response.body}"
    timeout: 10s
    limits: {per_user: 5, total: 200}
`, i)
		}
		return b.String()
	}
	modules := t.TempDir()
	cost := func(n int) uint64 {
		return testworld.Must(allocated(func() error {
			set, err := Read(t.Context(), "connectors.yaml", []byte(file(n)), Options{Environment: true, Host: host.Config{CodeCache: modules}})
			if err != nil {
				return err
			}
			if len(set.Connectors) != n {
				t.Errorf("%d connectors, not %d", len(set.Connectors), n)
			}
			return set.Close(t.Context())
		}))(t)
	}
	cost(1) // compiles the modules
	fixed := cost(1)
	half, whole := cost(500)-fixed, cost(1000)-fixed
	if whole > half*5/2 {
		t.Errorf("1,000 connectors allocate %d bytes, 500 %d", whole, half)
	}
}

// The first hundred problems are listed, and the number of the others (threats.md 54).
func TestManyProblems(t *testing.T) {
	for name, text := range map[string]string{
		"of the file":    "connectors: [1]\n" + numberedLines(5000, "x%d: y\n"),
		"of a connector": strings.TrimSuffix(claims, "      claims:\n") + numberedLines(5000, "      x%d: y\n"),
	} {
		_, err := Read(t.Context(), "connectors.yaml", []byte(text), Options{})
		var wrong *Error
		if !errors.As(err, &wrong) {
			t.Fatalf("%s: err = %v", name, err)
		}
		last := wrong.Problems[len(wrong.Problems)-1]
		if want := (Problem{Message: "and 4901 more problems: mend these first"}); len(wrong.Problems) != maxProblems+1 || last != want {
			t.Errorf("%s: %d problems, the last of them %+v", name, len(wrong.Problems), last)
		}
	}
}

func numberedLines(n int, format string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}

// Any file is read or refused at a cost in proportion to its size (threats.md 54).
func FuzzCost(f *testing.F) {
	for _, attack := range attacks {
		f.Add(attack(2000))
	}
	h := newHost(f)
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 64<<10 {
			return
		}
		cost, _ := costOf(t, h, text)
		// The first call of a plugin creates an instance of some 24 MiB.
		if most := uint64(32<<20 + 2<<10*len(text)); cost > most {
			t.Errorf("%d bytes of text allocate %d bytes", len(text), cost)
		}
	})
}

// Any file results in connectors or problems, and not in a panic.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"connectors:\n- name: a\n  url: https://a.example\n  auth: {type: none}\n",
		"a: &a [*a]\nb: {<<: *a}\n? x\n: |\n  y\n- &b\n",
		`{"connectors": [{"name": "x", "auth": {"config": {"a": [1e3, "\u00e9"]}}}]}`,
		"plugins: [{path: x, sha256: 1, grants: [y]}]\n--- \n%TAG\n...\n",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 4096 {
			return
		}
		var p problems
		root := parse(t.Context(), text, &p)
		if root == nil {
			if len(p.all) == 0 {
				t.Fatal("neither a document nor a problem")
			}
			return
		}
		l := newLoader("connectors.yaml", []byte(text), Options{})
		l.problems = p
		connectors, _ := l.document(t.Context(), root)
		for _, c := range connectors {
			if n, _, _ := c.member.locate("auth.config"); n != nil {
				l.source.character(n, 3)
			}
		}
		for _, wrong := range l.sorted(nil, moreProblems) {
			if wrong.Message == "" || wrong.Line < 0 {
				t.Fatalf("wrong = %+v", wrong)
			}
		}
	})
}
