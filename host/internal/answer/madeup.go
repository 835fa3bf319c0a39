package answer

import (
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/keywright/keywright/internal/contract"
)

// MadeUp returns made-up values of parts, for a call that is explained.
func MadeUp(list []Part, names []string, now time.Time) map[string]string {
	found := map[string]string{}
	for i := range list {
		a := &list[i]
		if len(names) > 0 && !slices.Contains(names, a.Name) {
			continue
		}
		switch a.Kind {
		case contract.AnswerInteger:
			found[a.Name] = "3600"
		case contract.AnswerTime:
			found[a.Name] = strconv.FormatInt(now.Unix()+3600, 10)
		case contract.AnswerEnum:
			found[a.Name] = a.Enum[0]
		default:
			found[a.Name] = a.Name
		}
	}
	return found
}

// MadeUpToken returns a made-up successful answer with these extras, for a call that is explained.
func MadeUpToken(extra []string) *contract.TokenReply {
	reply := &contract.TokenReply{Status: http.StatusOK, AccessToken: "token", TokenType: "bearer", Extra: map[string]string{}}
	hour := int64(3600)
	reply.ExpiresIn = &hour
	for _, name := range extra {
		reply.Extra[name] = name
	}
	return reply
}
