// Package playground tests lab/playground by starting real control planes: what runs in them, what they leave
// behind, and how they react to the death of a component. Tests that start nothing are beside the code.
package playground
