package hostfn

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host/internal/answer"
	"github.com/keywright/keywright/host/internal/seal"
	"github.com/keywright/keywright/host/internal/strictjson"
	"github.com/keywright/keywright/internal/contract"
	"github.com/keywright/keywright/internal/printable"
	"golang.org/x/net/http/httpguts"
)

// maxOpened bounds the total size, in bytes, of the texts that sealed values are put into in a call, and separately of
// those that it encodes or uses as keys. A document can contain thousands of references, each to a long value. Without
// the bound, the time of a call would also show the length of a secret.
const maxOpened = 2 << 20

// rejectSealed ends the call if text, in a place that takes no sealed values, contains one.
func (c *core) rejectSealed(where, text string) {
	if err := c.sealed.Plain(text); err != nil {
		c.endf(StagePlugin, "%s: %w", where, err)
	}
}

// unseal returns text with its sealed values put in, and their number. It ends the call if they may not go to sink.
func (c *core) unseal(where, text string, sink seal.Sinks) (string, int) {
	out, count, err := c.sealed.Open(text, sink)
	if err != nil {
		c.notListed(err)
		c.endf(StagePlugin, "%s: %w", where, err)
	}
	if c.sealed.Opened() > maxOpened {
		c.endf(StagePlugin, "%s: the sealed values of a call stand for more than %d bytes in all", where, maxOpened)
	}
	return out, count
}

// notListed ends the call if err is that of the user's token in an exchange with a host that the operator does not list.
func (c *core) notListed(err error) {
	var misuse *seal.Error
	if errors.As(err, &misuse) && misuse.Sink == seal.Token && misuse.Sinks&seal.Listed != 0 {
		c.endf(StageConfig, "user.token may not go to %s, and nothing was sent: if that host may get the tokens of users, the operator lists it in UserTokenHosts (gateway.user.jwt.token_hosts)", c.exchangeHost)
	}
}

func (c *core) seal(v seal.Value) string {
	reference, err := c.sealed.Seal(v)
	if err != nil {
		c.end(StagePlugin, err)
	}
	return reference
}

// concat returns text as one value, for a function that makes something from the text and seals that. It reports
// whether text contains a sealed value.
func (c *core) concat(where, text string) (seal.Value, bool) {
	v, sealed, err := c.sealed.Combine(text)
	if err != nil {
		c.endf(StagePlugin, "%s: %w", where, err)
	}
	c.boundMade(where)
	return v, sealed
}

// boundMade ends the call if what it has made of sealed values counts as too many bytes.
func (c *core) boundMade(where string) {
	if c.sealed.Made() > maxOpened {
		c.endf(StagePlugin, "%s: what a call makes of sealed values counts as more than %d bytes in all", where, maxOpened)
	}
}

// notRaw ends the call if text contains a raw value. Otherwise, success or failure would show whether the bytes of a
// MAC happen to be text. A guest would learn something about the key from each MAC.
func (c *core) notRaw(where, text string) {
	if c.sealed.Raw(text) {
		c.endf(StagePlugin, "%s: what mac, digest, decode and sign_sealed return is raw bytes: encode it first", where)
	}
}

// hash writes data with its sealed values put in to w. It returns a value without Text for what is made from the bytes, and
// whether data contains sealed values other than the body.
func (c *core) hash(where, data string, w io.Writer) (seal.Value, bool) {
	v, sealed, err := c.sealed.Hash(data, w)
	var misuse *seal.Error
	switch {
	case errors.As(err, &misuse):
		c.endf(StagePlugin, "%s: %w", where, err)
	case errors.Is(err, errTooMuch):
		c.endf(StageSign, "%s: %w", where, err)
	case err != nil:
		c.endf(StageBody, "the request's body cannot be read: %w", c.ScrubError(err))
	}
	c.boundMade(where)
	return v, sealed
}

// maxStoreData is the maximum length of data that a store of keys signs, in bytes.
const maxStoreData = seal.MaxText

// errTooMuch is the error for data that is too long for a store of keys.
var errTooMuch = fmt.Errorf("more than %d bytes are to be signed by the store of keys, which are sent to it: sign a digest of the data, such as that of the body, or use get_secret", maxStoreData)

// masked returns a text of the mutation as a person may see it. After Reveal it also scrubs the text, because the guest
// may have put a credential in without a reference.
func (c *core) masked(text string) string {
	if c.revealed {
		text = c.Scrub(text)
	}
	return c.sealed.Mask(text)
}

// maskedPairs returns pairs as a person may see them.
func (c *core) maskedPairs(pairs []abi.Pair) (list []abi.Pair) {
	for _, pair := range pairs {
		list = append(list, abi.Pair{Name: c.masked(pair.Name), Value: c.masked(pair.Value)})
	}
	return list
}

// maskedParameters returns parameters as a person may see them.
func (c *core) maskedParameters(pairs []abi.Pair) string {
	text := ""
	for _, pair := range c.maskedPairs(pairs) {
		text += "&" + pair.Name + "=" + pair.Value
	}
	return strings.TrimPrefix(text, "&")
}

// mapStrings applies f to the strings of a tree, in place, and returns it. Names of members may not contain sealed values.
func (c *core) mapStrings(where string, tree any, f func(string) (string, error)) any {
	tree, err := strictjson.MapStrings(tree, f, func(name string) {
		if c.sealed.Plain(name) != nil {
			c.rejectSealed("a name in "+where, name)
		}
	})
	if err != nil {
		c.endf(StageSign, "%s: %w", where, err)
	}
	return tree
}

// header puts the sealed values into a header that the guest sets, and checks it. label is its name for error messages.
func (c *core) header(where string, pair abi.Pair, sink seal.Sinks) (name, value string, label shownName) {
	c.notRaw(where, pair.Name)
	c.notRaw(where, pair.Value)
	name, count := c.unseal(where, pair.Name, sink)
	value, n := c.unseal(where, pair.Value, sink)
	c.openedValues += count + n
	label = shownName{name, count > 0}
	if problem := contract.CheckHeaderName(name); problem != "" {
		c.endf(StageMutation, "%s: %s %s", where, label, problem)
	}
	if !httpguts.ValidHeaderFieldValue(value) {
		c.endf(StageMutation, "%s: the value of %s holds a line break or another control character", where, label)
	}
	if n > 0 && strings.TrimSpace(value) == "" {
		c.endf(StageMutation, "%s: the credential in %s is empty", where, label)
	}
	if strings.EqualFold(name, "Authorization") || strings.EqualFold(name, "Proxy-Authorization") {
		scheme, rest, _ := strings.Cut(value, " ")
		if second, _, found := strings.Cut(strings.TrimLeft(rest, " "), " "); found && strings.EqualFold(scheme, second) {
			c.endf(StageMutation, "%s: the value of %s begins with its scheme twice: leave it out of the secret, or of the text before it", where, label)
		}
	}
	return name, value, label
}

// aloneWhenSealed is the rule for headers with sealed names, as errors state it. If such a header could stand beside
// another one, a plugin could use the error for two headers of one name to check a guess of a secret.
const aloneWhenSealed = "only a header that is alone may have such a name"

// shownName is the name of a header, for error messages. They do not quote a name that contains a sealed value.
type shownName struct {
	name   string
	sealed bool
}

func (n shownName) String() string {
	if n.sealed {
		return "a sealed name"
	}
	return fmt.Sprintf("%q", printable.Text(n.name, 128))
}

// sealAnswers seals the values of a list that are sealed, and returns all of them as the guest gets them.
func (c *core) sealAnswers(list []answer.Part, found map[string]string) map[string]string {
	for i := range list {
		a := &list[i]
		value, ok := found[a.Name]
		if ok && a.Kind == contract.AnswerSealed {
			found[a.Name] = c.seal(a.Value(value))
		}
	}
	return found
}
