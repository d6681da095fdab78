// Package cronv1 is what Dapr's scheduler stores in its etcd. Every other file is generated.
package cronv1
