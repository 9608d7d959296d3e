// Package sealed has the type that seals interfaces over several packages of this module: a method with a parameter of
// this type has no other implementations.
package sealed

// Type is the parameter of such a method, which nobody calls.
type Type struct{}
