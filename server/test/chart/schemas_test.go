package chart

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/keywright/keywright/internal/testworld"
)

// definition is the schema of a type.
type definition map[string]any

// kind is the value of x-kubernetes-group-version-kind.
type kind struct{ Group, Version, Kind string }

// openAPIDocument is the part of the OpenAPI document of Kubernetes that has its types.
type openAPIDocument struct {
	Definitions map[string]definition `json:"definitions"`
}

// openAPI reads the OpenAPI document of the version of Kubernetes whose API server is in tools/kubernetes.
var openAPI = sync.OnceValues(func() (document openAPIDocument, err error) {
	download := exec.Command("go", "mod", "download", "-json", "k8s.io/kubernetes")
	download.Dir = "../../../tools/kubernetes"
	out, err := download.Output()
	var module struct{ Dir string }
	if err == nil {
		err = json.Unmarshal(out, &module)
	}
	if err != nil {
		return document, err
	}
	text, err := os.ReadFile(filepath.Join(module.Dir, "api/openapi-spec/swagger.json"))
	if err == nil {
		err = json.Unmarshal(text, &document)
	}
	return document, err
})

// schemas writes a JSON Schema for each kind to a directory, as kubeconform reads them, and returns it. Unknown members are wrong.
func schemas(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	write := func(name string, document any) {
		testworld.Check(t, os.WriteFile(filepath.Join(dir, name+".json"), testworld.Must(json.Marshal(document))(t), 0o600))
	}
	document := testworld.Must(openAPI())(t)
	for name, d := range document.Definitions {
		switch _, open := d["additionalProperties"]; {
		case d["format"] == "int-or-string", strings.HasSuffix(name, ".resource.Quantity"):
			d["type"] = []string{"string", "number"}
		case d["properties"] != nil && !open:
			d["additionalProperties"] = false
		}
		var all []kind
		text := testworld.Must(json.Marshal(d["x-kubernetes-group-version-kind"]))(t)
		testworld.Check(t, json.Unmarshal(text, &all))
		for _, k := range all {
			group, _, _ := strings.Cut(k.Group, ".")
			file := strings.ReplaceAll(strings.ToLower(k.Kind+"-"+group+"-"+k.Version), "--", "-")
			write(file, map[string]string{"$ref": "definitions.json#/definitions/" + name})
		}
	}
	write("definitions", document)
	return dir
}
