// Package compat holds Carillon's face for Dapr's sidecars against Dapr's own packages. It has a module of
// its own, so that the product does not depend on them, and tests only. Dapr's generated packages and
// Carillon's register under the same names, so no program links both: Carillon's description of the protocol
// is printed by the program in folder descriptors.
package compat
