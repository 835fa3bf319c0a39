package openapi

import (
	"encoding/json"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/keywright/keywright/internal/testworld"
)

// services prints the names of AWS's services in signatures, by the endpoint prefixes that botocore has.
const services = `
import json, botocore.loaders
loader, names = botocore.loaders.Loader(), {}
for service in loader.list_available_services("service-2"):
    metadata = loader.load_service_model(service, "service-2")["metadata"]
    prefix = metadata["endpointPrefix"]
    names.setdefault(prefix, []).append(metadata.get("signingName", prefix))
print(json.dumps(names))
`

// prefixOf matches the endpoint prefix of a host of AWS.
var prefixOf = regexp.MustCompile(`^https://(.+?)(\.[a-z]+(-[a-z]+)+-[0-9])?(\.api\.aws|\.aws\.amazon\.com|\.amazonaws\.com)`)

// The names of services in the signatures of the connectors for AWS are those that botocore has.
func TestServicesOfAWS(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "python3", "-c", services).Output()
	if err != nil {
		t.Fatalf("%v: run make deps, which installs python3-botocore", err)
	}
	var names map[string][]string
	testworld.Check(t, json.Unmarshal(out, &names))
	compared := 0
	entries, _ := readAll(t, "amazonaws.com")
	for _, e := range entries {
		if e.raw.Amazon != "awsSigv4" {
			continue
		}
		found := prefixOf.FindStringSubmatch(e.result.Connector.URL)
		if found == nil {
			t.Errorf("%s: %s is no host of AWS", e.document, e.result.Connector.URL)
			continue
		}
		wanted := names[strings.TrimPrefix(found[1], "service.")]
		if wanted == nil {
			continue // botocore does not have the service any more
		}
		compared++
		for _, field := range e.result.Connector.Config {
			if service, _ := field.Value.(string); field.Name == "service" && !slices.Contains(wanted, service) {
				t.Errorf("%s: the service is %s, and not %s", e.document, service, wanted)
			}
		}
	}
	if compared < 280 {
		t.Errorf("%d services are compared", compared)
	}
}
