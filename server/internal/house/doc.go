// Package house holds no code, only the rules of this house as tests: who may import whom and how deep
// imports may go (docs/layers.txt), what nobody may import, what keeps the partition pure, how long a file
// and a function may be, and that no link in the docs is dead.
package house
