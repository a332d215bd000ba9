def kill(each, seed):
    raise NotImplementedError
