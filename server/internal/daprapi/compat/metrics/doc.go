// Package metrics holds the metrics of Carillon's face for Dapr's sidecars against those that Dapr's scheduler shows. It
// is apart from package compat because it links Dapr's protocol by Dapr's own packages.
package metrics
