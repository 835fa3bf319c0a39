package docs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/connectors"
	"github.com/keywright/keywright/server/internal/serve/daemon"
)

// The files that docs/gateway.md, docs/several-nodes.md and docs/sessions.md show can be loaded.
func TestTheFileOfTheGateway(t *testing.T) {
	dir := t.TempDir()
	testworld.Check(t, os.WriteFile(filepath.Join(dir, "company-ca.pem"), []byte(testworld.NewAuthority(t).PEM()), 0o600))
	testworld.Check(t, os.WriteFile(filepath.Join(dir, "acme.svg"), []byte(`<svg xmlns="http://www.w3.org/2000/svg"/>`), 0o600))
	for _, b := range slices.Concat(blocksOf(t, "docs/gateway.md", "yaml"), blocksOf(t, "docs/several-nodes.md", "yaml"), blocksOf(t, "docs/sessions.md", "yaml")) {
		set := testworld.Must(connectors.Read(t.Context(), filepath.Join(dir, "connectors.yaml"), []byte(b.text), connectors.Options{WithoutStore: true}))(t)
		testworld.Check(t, set.Close(t.Context()))
	}
}

// No example of the documents has a credential in it, as check sees it.
func TestNoExampleHasACredential(t *testing.T) {
	looked := 0
	for _, name := range []string{
		"README.md", "docs/gateway.md", "docs/auth-types.md", "docs/several-nodes.md", "docs/sessions.md", "docs/plugins.md", "docs/registries.md", "docs/import.md", "docs/audit.md",
	} {
		for _, b := range blocksOf(t, name, "yaml") {
			text := b.text
			if strings.HasPrefix(text, "- name: ") {
				text = "connectors:\n" + text
			}
			if !strings.Contains(text, "connectors:") {
				continue
			}
			looked++
			set, err := connectors.Read(t.Context(), filepath.Join(t.TempDir(), "connectors.yaml"), []byte(text), connectors.Options{WithoutStore: true, Inspect: true})
			var wrong *connectors.Error
			var warnings []connectors.Problem
			switch {
			case errors.As(err, &wrong): // an example may name files and plugins that are not here
				warnings = wrong.Warnings
			case err != nil:
				t.Fatal(err)
			default:
				warnings = set.Warnings
				testworld.Check(t, set.Close(t.Context()))
			}
			for _, p := range warnings {
				if strings.Contains(p.Message, "credential") {
					t.Errorf("%s:%d: p = %s", name, b.line, p)
				}
			}
		}
	}
	if looked < 35 {
		t.Errorf("there are %d examples only", looked)
	}
}

// exampleAPI answers as the API of an example does, and records the body that it received.
type exampleAPI struct{ got, answer string }

// RoundTrip implements [http.RoundTripper].
func (a *exampleAPI) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	a.got = string(body)
	return &http.Response{
		StatusCode: http.StatusOK, ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(strings.NewReader(a.answer)), ContentLength: int64(len(a.answer)), Request: r,
	}, nil
}

// The bodies in docs/gateway.md have the results that the page shows, with the file that the page shows.
func TestTheBodiesOfTheGateway(t *testing.T) {
	example := map[string]string{}
	for _, b := range blocks(t, "docs/gateway.md") {
		if part, ok := strings.CutPrefix(b.marker, "bodies: "); ok {
			example[part] = b.text
		}
	}
	api := &exampleAPI{answer: example["API answers"]}
	config := daemon.Config{
		Text: []byte(example["file"]), Listen: "127.0.0.1:0", Admin: "127.0.0.1:0", Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
		Options: connectors.Options{Host: host.Config{Base: api}},
	}
	url, _, _ := testworld.Serve(t, &config.Started, func(ctx context.Context) error { return daemon.Run(ctx, config) })
	request := testworld.Must(http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/connectors/notes", strings.NewReader(example["caller sends"])))(t)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("X-Forwarded-Email", "ann@example.com")
	response := testworld.Must(http.DefaultClient.Do(request))(t)
	defer response.Body.Close()
	answer := testworld.Must(io.ReadAll(response.Body))(t)
	if want := strings.TrimSuffix(example["API gets"], "\n"); api.got != want {
		t.Errorf("the API gets\n%s\nwant\n%s", api.got, want)
	}
	if !sameJSON(t, answer, []byte(example["caller gets"])) {
		t.Errorf("the caller gets\n%s\nwant\n%s", answer, example["caller gets"])
	}
}

func sameJSON(t *testing.T, a, b []byte) bool {
	t.Helper()
	var values [2]any
	for i, text := range [][]byte{a, b} {
		if err := json.NewDecoder(bytes.NewReader(text)).Decode(&values[i]); err != nil {
			t.Errorf("%v in %s", err, text)
		}
	}
	return reflect.DeepEqual(values[0], values[1])
}
