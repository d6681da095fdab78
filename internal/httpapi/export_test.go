package httpapi

// Decode is decode for tests outside of the package.
var Decode = decode
