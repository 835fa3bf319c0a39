package secretstore_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"filippo.io/age"
	"filippo.io/age/armor"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/internal/secretstore"
)

// ageWorld holds an encrypted file, its identity, and the store that reads them.
type ageWorld struct {
	*canaries
	*testworld.Clock
	identity           *age.X25519Identity
	file, identityFile string
	store              host.Secrets
}

func newAge(t *testing.T) *ageWorld {
	t.Helper()
	identity := testworld.Must(age.GenerateX25519Identity())(t)
	dir := t.TempDir()
	w := &ageWorld{
		canaries: newCanaries(t), Clock: newClock(), identity: identity,
		file: filepath.Join(dir, "secrets.age"), identityFile: filepath.Join(dir, "identity.txt"),
	}
	w.Hide("a secret", identity.String())
	write(t, w.identityFile, []byte("# created: today\n"+identity.String()+"\n"), 0o600)
	w.store = secretstore.Age(w.file, w.identityFile, w.Now)
	return w
}

// encrypt returns document encrypted to the world's identity.
func (w *ageWorld) encrypt(document string) []byte {
	return encryptTo(w.t, document, w.identity.Recipient())
}

func encryptTo(t *testing.T, document string, to age.Recipient) []byte {
	t.Helper()
	var b bytes.Buffer
	e := testworld.Must(age.Encrypt(&b, to))(t)
	_, _ = io.WriteString(e, document)
	testworld.Check(t, e.Close())
	return b.Bytes()
}

func armored(t *testing.T, file []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	a := armor.NewWriter(&b)
	_, _ = a.Write(file)
	testworld.Check(t, a.Close())
	return b.Bytes()
}

// put writes secrets to the file, and advances the clock so that the store reads them.
func (w *ageWorld) put(secrets map[string]string) {
	w.t.Helper()
	document := testworld.Must(json.Marshal(secrets))(w.t)
	w.putFile(w.encrypt(string(document)))
}

func (w *ageWorld) putFile(content []byte) {
	w.t.Helper()
	write(w.t, w.file, content, 0o644) // encrypted, so anyone may read it
	w.Advance(time.Second)
}

func TestSecretsOfAnAgeFile(t *testing.T) {
	w := newAge(t)
	key := w.Secret("a secret") + "\nsecond line\n"
	document := fmt.Sprintf("{ %q: %q,\n \"empty\": \"\" }\n", "crm-key", key)
	quantum := testworld.Must(age.GenerateHybridIdentity())(t)
	for _, tt := range []struct {
		name             string
		file, identities []byte
	}{
		{"binary", w.encrypt(document), []byte(w.identity.String())},
		{"armored", armored(t, w.encrypt(document)), []byte(w.identity.String())},
		{"armored, with blank lines around", append([]byte("\n"), append(armored(t, w.encrypt(document)), '\n')...), []byte(w.identity.String())},
		{"one of two identities", w.encrypt(document), []byte(quantum.String() + "\n" + w.identity.String() + "\n")},
		{"an identity safe from quantum computers", encryptTo(t, document, quantum.Recipient()), []byte(quantum.String())},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newCanaries(t)
			write(t, w.identityFile, tt.identities, 0o400)
			w.putFile(tt.file)
			c.want(w.store, "crm-key", key)
			c.want(w.store, "empty", "")
			c.wantMissing(w.store, "other", "does not have it")
			c.wantMissing(w.store, "../crm-key", "is not a secret's name")
		})
	}
}

func TestChangedAgeFile(t *testing.T) {
	w := newAge(t)
	first, second := w.Word("a secret"), w.Word("a secret")
	w.put(map[string]string{"crm": first})
	w.want(w.store, "crm", first)
	info := testworld.Must(os.Stat(w.file))(t)
	// Neither the time nor the size of the file changes.
	write(t, w.file, w.encrypt(fmt.Sprintf("{%q:%q}", "crm", second)), 0o600)
	testworld.Check(t, os.Chtimes(w.file, info.ModTime(), info.ModTime()))
	if now, _ := os.Stat(w.file); now.Size() != info.Size() || !now.ModTime().Equal(info.ModTime()) {
		t.Fatal("the file is not as the test needs it")
	}
	w.Advance(time.Second - 1)
	w.want(w.store, "crm", first)
	w.Advance(1)
	w.want(w.store, "crm", second)
}

// An invalid file is an error at once, and no old secret is returned. A corrected file is read without a restart.
func TestBadAgeFile(t *testing.T) {
	for _, tt := range []struct {
		name, want string
		spoil      func(w *ageWorld)
	}{
		{"gone", "cannot be read", func(w *ageWorld) { _ = os.Remove(w.file) }},
		{"empty", "is empty", func(w *ageWorld) { w.putFile(nil) }},
		{"not encrypted", "is not encrypted with age", func(w *ageWorld) { w.putFile([]byte(`{"crm":"` + w.Secret("a secret") + `"}`)) }},
		{"not encrypted, in the place of a stanza", "damaged", func(w *ageWorld) { w.putFile([]byte("age-encryption.org/v1\n" + w.Secret("a secret") + "\n")) }},
		{"not encrypted, in armor", "damaged", func(w *ageWorld) { w.putFile([]byte(armor.Header + "\nAAAA\n" + w.Secret("a secret") + "\n")) }},
		{"half of it", "damaged or not whole", func(w *ageWorld) {
			whole := w.encrypt(`{"crm":"` + w.Secret("a secret") + `"}`)
			w.putFile(whole[:len(whole)-1])
		}},
		{"something after it", "damaged", func(w *ageWorld) { w.putFile(append(w.encrypt(`{"crm":"new"}`), '\n')) }},
		{"for somebody else", "not for any identity", func(w *ageWorld) {
			other, _ := age.GenerateX25519Identity()
			w.putFile(encryptTo(w.t, `{"crm":"new"}`, other.Recipient()))
		}},
		{"for a passphrase", "not for any identity", func(w *ageWorld) {
			r, _ := age.NewScryptRecipient(w.Secret("a secret"))
			r.SetWorkFactor(10)
			w.putFile(encryptTo(w.t, `{"crm":"new"}`, r))
		}},
		{"with a document that is none", "not a JSON object", func(w *ageWorld) { w.putFile(w.encrypt(w.Secret("a secret"))) }},
		{"too large", "has more than 4194304 bytes", func(w *ageWorld) {
			w.putFile(w.encrypt(`{"crm":"` + strings.Repeat("x", 4<<20) + `"}`))
		}},
		{"a directory", "is not a regular file", func(w *ageWorld) {
			_ = os.Remove(w.file)
			_ = os.Mkdir(w.file, 0o700)
		}},
		{"a pipe that nobody writes to", "is not a regular file", func(w *ageWorld) {
			_ = os.Remove(w.file)
			_ = syscall.Mkfifo(w.file, 0o600)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newAge(t)
			value := w.Secret("a secret")
			w.put(map[string]string{"crm": value})
			w.want(w.store, "crm", value)
			tt.spoil(w)
			w.Advance(time.Second)
			w.wantFailure(w.store, "crm", tt.want)
			w.wantFailure(w.store, "other", tt.want)
			_ = os.Remove(w.file)
			w.put(map[string]string{"crm": value})
			w.want(w.store, "crm", value)
		})
	}
}

func TestTheIdentityFile(t *testing.T) {
	for _, tt := range []struct {
		name    string
		content func(w *ageWorld) string // nil for valid content
		mode    os.FileMode
		want    string // "" if it is valid
	}{
		{"for its owner", nil, 0o600, ""},
		{"for its owner to read", nil, 0o400, ""},
		{"for its group to read, as Kubernetes mounts it", nil, 0o640, ""},
		{"for the world", nil, 0o604, "chmod g-w,o="},
		{"for the group to write", nil, 0o620, "chmod g-w,o="},
		{"empty", func(*ageWorld) string { return "" }, 0o600, "is empty"},
		{"a comment", func(*ageWorld) string { return "# nothing\n" }, 0o600, "AGE-SECRET-KEY-"},
		{"another secret", func(w *ageWorld) string { return w.Secret("a secret") }, 0o600, "AGE-SECRET-KEY-"},
		{"a damaged identity", func(w *ageWorld) string { return w.Hide("a secret", w.identity.String()[:60]) }, 0o600, "AGE-SECRET-KEY-"},
		{"an identity of another kind", func(w *ageWorld) string {
			return w.identity.String() + "\nAGE-PLUGIN-" + w.Secret("a secret")
		}, 0o600, "AGE-SECRET-KEY-"},
		{"too large", func(w *ageWorld) string { return w.identity.String() + strings.Repeat("\n", 64<<10) }, 0o600, "has more than 65536 bytes"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newAge(t)
			value := w.Secret("a secret")
			right := testworld.Must(os.ReadFile(w.identityFile))(t)
			content := right
			if tt.content != nil {
				content = []byte(tt.content(w))
			}
			write(t, w.identityFile, content, tt.mode)
			w.put(map[string]string{"crm": value})
			if tt.want == "" {
				w.want(w.store, "crm", value)
				return
			}
			w.wantFailure(w.store, "crm", tt.want)
			write(t, w.identityFile, right, 0o600) // is read, although the secrets have not changed
			w.Advance(time.Second)
			w.want(w.store, "crm", value)
		})
	}
}

func TestStrictAgeFile(t *testing.T) {
	w := newAge(t)
	v := w.Word("a secret")
	for _, tt := range []struct{ name, document, want string }{
		{"a name that is there twice", `{"crm":"` + v + `",` + "\n" + `"crm":"` + v + `"}`, `near line 2: "crm" is there twice`},
		{"twice, once escaped", `{"crm":"` + v + `","\u0063rm":"` + v + `"}`, `"crm" is there twice`},
		{"a number", `{"crm":12` + "}", `the value of "crm" is not text`},
		{"null", `{"crm":null}`, `the value of "crm" is not text`},
		{"a truth value", `{"crm":true}`, `the value of "crm" is not text`},
		{"an object", `{"crm":{"key":"` + v + `"}}`, `the value of "crm" is not text`},
		{"a list", `{"crm":["` + v + `"]}`, `the value of "crm" is not text`},
		{"a value in the place of a name", `{"` + v + `/":"crm"}`, "a name is not one of a secret"},
		{"no name", `{"":"` + v + `"}`, "a name is not one of a secret"},
		{"no quotes", `{"crm":` + v + `}`, "not JSON"},
		{"YAML", "crm: " + v, "not a JSON object"},
		{"a list of secrets", `["` + v + `"]`, "not a JSON object"},
		{"a comma too many", `{"crm":"` + v + `",}`, "not JSON"},
		{"no end", `{"crm":"` + v + `"`, "not JSON"},
		{"no end of a value", `{"crm":"` + v, "not JSON"},
		{"a second document", `{"crm":"` + v + `"} {"crm":"` + v + `"}`, "something follows"},
		{"not UTF-8", `{"crm":"` + v + "\xff\"}", "not JSON"},
		{"a line break in a value", `{"crm":"` + v + "\n\"}", "not JSON"},
		{"half a character", `{"crm":"` + v + `\ud800"}`, "not JSON"},
		{"nothing", " ", "not a JSON object"},
		{"nested without end", strings.Repeat("[", 100_000), "not a JSON object"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := *w
			w.canaries = newCanaries(t)
			w.Hide("the secret", v)
			w.putFile(w.encrypt(tt.document))
			w.wantFailure(w.store, "crm", tt.want)
		})
	}
	w.putFile(w.encrypt("{}"))
	w.wantMissing(w.store, "crm", "does not have")
}

// During an atomic replacement, the store reads the old file or the new one.
func TestAtomicFileReplacement(t *testing.T) {
	w := newAge(t)
	files := make([][]byte, 2)
	values := make([]string, 2)
	for i := range files {
		values[i] = strings.Repeat(fmt.Sprint(i), 100_000+i)
		files[i] = w.encrypt(`{"crm":"` + values[i] + `"}`)
	}
	w.putFile(files[0])
	var done atomic.Bool
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for i := 0; !done.Load(); i++ {
			write(t, w.file, files[i%2], 0o600)
		}
	}()
	seen := map[string]int{}
	for i := 0; i < 100_000 && (i < 300 || len(seen) < 2); i++ {
		w.Advance(time.Second)
		got, err := w.store.Secret(context.Background(), "crm")
		if err != nil || got != values[0] && got != values[1] {
			t.Errorf("read %d: %d bytes, %v", i, len(got), err)
			break
		}
		seen[got]++
	}
	done.Store(true)
	<-ended
	if len(seen) != 2 {
		t.Errorf("%d versions were seen, want both", len(seen))
	}
}

func FuzzDocument(f *testing.F) {
	for _, seed := range []string{`{"a":"b"}`, `{"a":"b","a":"c"}`, `{"a":1}`, `{"a":"b"}x`, `{`, `[]`, "{\"a\n\":\"\"}"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, document []byte) {
		secrets, err := secretstore.ParseSecrets(document)
		var reference map[string]string
		if err == nil && (json.Unmarshal(document, &reference) != nil || fmt.Sprint(reference) != fmt.Sprint(secrets)) {
			t.Errorf("%q is %q, but %q for encoding/json", document, secrets, reference)
		}
		if err != nil && strings.Contains(err.Error(), "canary") {
			t.Errorf("%q: err = %v", document, err)
		}
	})
}
