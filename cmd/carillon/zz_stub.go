package main

import "github.com/spf13/cobra"

func newWork(a app) *cobra.Command { return &cobra.Command{Use: "work"} }
func newDev(a app) *cobra.Command  { return &cobra.Command{Use: "dev"} }
