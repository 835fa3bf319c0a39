// Package certs has the directories of the console's certificates.
package certs

type ConfigDir struct{ Path string }

var GlobalCertsDir, GlobalCertsCADir *ConfigDir
