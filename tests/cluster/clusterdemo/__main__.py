from clusterdemo.show import main

if __name__ == "__main__":
    main()
