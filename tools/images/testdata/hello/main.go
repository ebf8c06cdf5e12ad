// Command hello is the program that the tests put into an image.
package main

func main() { println("hello") }
