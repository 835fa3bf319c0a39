// Package k8s knows no cluster.
package k8s

type Provider struct{}
