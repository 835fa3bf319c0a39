package hostfn

import (
	"fmt"
	"io"
	"net/http"
	"slices"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host/internal/answer"
)

// Texts returns the texts that a mutation of the call brings into its request, and their credentials.
func (c *Call) Texts(m *Mutation) []string {
	texts := append(c.Credentials(m), m.Query, m.Form)
	for _, pair := range slices.Concat(m.Headers, m.Cookies, m.Path) {
		texts = append(texts, pair.Value)
	}
	return texts
}

// sent returns the texts that a mutation of the call brings into its request. earlier are texts of an earlier attempt.
func (c *Call) sent(m *Mutation, earlier []string, known []map[string]string) *answer.Sent {
	return answer.NewSent(append(c.Credentials(m), earlier...), append(c.Texts(m), earlier...), known...)
}

// endRepeated ends the call if a plain part of an endpoint's answer repeats a text of its request, or a sealed part beside it.
func (c *exchanging) endRepeated(r *http.Request, reply *answer.Reply, found map[string]string) {
	sent := func() *answer.Sent {
		credentials := slices.Clone(c.inputs.secrets())
		for v := range c.sealed.Values() {
			credentials = append(credentials, v.Text)
		}
		for i := range reply.List {
			if a := &reply.List[i]; a.Kind == abi.AnswerSealed {
				credentials = append(credentials, reply.Text(a))
			}
		}
		request := []string{r.URL.String()}
		for _, values := range r.Header {
			request = append(request, values...)
		}
		if body, err := r.GetBody(); err == nil { // outgoing has made it of bytes
			text, _ := io.ReadAll(body)
			request = append(request, string(text))
		}
		s := answer.NewSent(credentials, request)
		s.Names = true
		return s
	}
	if name := reply.Repeated(found, sent); name != "" {
		c.end(StageToken, fmt.Errorf("the endpoint's answer repeats in %s a text of its request, or a sealed answer, and the plugin would see it", name))
	}
}

// tokenParts are the parts of an answer to token_request that endRepeated looks at.
var tokenParts = []answer.Part{
	{Answer: abi.Answer{Name: "access_token", Kind: abi.AnswerSealed}, Source: answer.Source{From: abi.FromJSON, Pointer: []string{"access_token"}}},
	{Answer: abi.Answer{Name: "expires_in", Kind: abi.AnswerInteger}, Source: answer.Source{From: abi.FromJSON, Pointer: []string{"expires_in"}}},
}
