package host_test

import (
	"net/http"
	"testing"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/internal/contract"
)

// threats.md 341: whether a refused token request is remembered does not depend on whether a text of the plugin is the secret, in the
// query or in the path. A refusal of another place is another one.
func TestRefusalOracle(t *testing.T) {
	for name, in := range map[string]func(*contract.Exchange, string){
		"query": func(e *contract.Exchange, text string) { e.Query = []abi.Pair{{Name: "token", Value: text}} },
		"name":  func(e *contract.Exchange, text string) { e.Query = []abi.Pair{{Name: text, Value: "x"}} },
		"path":  func(e *contract.Exchange, text string) { e.Path = []string{text} },
	} {
		t.Run(name, func(t *testing.T) {
			asked := map[bool]int{}
			for _, right := range []bool{false, true} {
				text := ""
				w := misusedWorld(t, func(env contract.Env) (string, error) {
					sent := text
					if sent == "" {
						sent = value(env, "to_token")
					}
					exchange := contract.Exchange{URL: value(env, "url"), Method: http.MethodGet}
					in(&exchange, sent)
					env.Exchange([]byte(marshal(exchange)))
					return header("X-Key", value(env, "to_header")), nil
				})
				secret := "the-secret-as-it-is"
				w.setSecret("s", secret)
				w.login.Answer(respond(http.StatusBadRequest, "{}"))
				connector := w.connect("custom", misused)
				w.get(connector)
				w.get(connector)
				if n := w.login.Count(); n != 1 {
					t.Fatalf("the secret was sent %d times, the refusal is not remembered", n)
				}
				text = "a-guess-of-the-secret"
				if right {
					text = secret
				}
				w.get(connector)
				asked[right] = w.login.Count()
			}
			if asked[true] != asked[false] || asked[false] != 2 {
				t.Errorf("the endpoint was asked %d times with a right guess, and %d times with a wrong one", asked[true], asked[false])
			}
		})
	}
}
