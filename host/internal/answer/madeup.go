package answer

import (
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/keywright/keywright/abi"
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
		case abi.AnswerInteger:
			found[a.Name] = "3600"
		case abi.AnswerTime:
			found[a.Name] = strconv.FormatInt(now.Unix()+3600, 10)
		case abi.AnswerEnum:
			found[a.Name] = a.Enum[0]
		default:
			found[a.Name] = a.Name
		}
	}
	return found
}

// MadeUpToken returns a made-up successful answer with these extras, for a call that is explained.
func MadeUpToken(extra []string) *abi.TokenReply {
	reply := &abi.TokenReply{Status: http.StatusOK, AccessToken: "token", TokenType: "bearer", Extra: map[string]string{}}
	hour := int64(3600)
	reply.ExpiresIn = &hour
	for _, name := range extra {
		reply.Extra[name] = name
	}
	return reply
}
