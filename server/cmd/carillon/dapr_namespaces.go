package main

import (
	"fmt"
	"path/filepath"

	"google.golang.org/grpc"

	"github.com/carillonhq/carillon/server/internal/kubens"
	"github.com/carillonhq/carillon/server/internal/server"
)

// namespacesFile keeps the names of Kubernetes' namespaces in --etcd-data-dir.
const namespacesFile = "carillon-namespaces.json"

// followNamespaces lets a node remove jobs of namespaces that are deleted in Kubernetes.
func (f *daprFlags) followNamespaces(c *server.Config) error {
	client, err := kubens.Connect(f.kubeconfig)
	if err != nil {
		return fmt.Errorf("--mode kubernetes: %w", err)
	}
	sidecars := c.Sidecars.API
	c.Sidecars.API = func(n *server.Node, r grpc.ServiceRegistrar) func() {
		leave := sidecars(n, r)
		w, err := kubens.Watch(client, kubens.Options{
			Jobs: n.Scheduler(),
			File: filepath.Join(f.dataDir, namespacesFile),
			Turn: kubens.Turn(n.Cluster(), c.Name),
			Log:  c.Log,
		})
		if err != nil {
			c.Log.Error("jobs of namespaces that are deleted in Kubernetes stay", "error", err)
			return leave
		}
		return func() {
			w.Close()
			leave()
		}
	}
	return nil
}
