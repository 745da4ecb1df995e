from clusterlab.commandline import main

if __name__ == "__main__":
    main()
