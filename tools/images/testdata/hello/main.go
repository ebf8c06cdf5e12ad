// Command hello is what the tests put into an image.
package main

func main() { println("hello") }
