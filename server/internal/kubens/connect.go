package kubens

import (
	"fmt"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Connect returns a client of the API server that the file names, a kubeconfig; without a file, of the
// cluster that this process runs in. It does not ask the server yet.
func Connect(kubeconfig string) (*Client, error) {
	config, err := configOf(kubeconfig)
	if err != nil {
		return nil, err
	}
	return NewClient(config)
}

func configOf(kubeconfig string) (*rest.Config, error) {
	if kubeconfig == "" {
		config, err := rest.InClusterConfig()
		if err != nil {
			return nil, fmt.Errorf("not in a pod of Kubernetes with a service account; give --kubeconfig: %w", err)
		}
		return config, nil
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("--kubeconfig: %w", err)
	}
	return config, nil
}
